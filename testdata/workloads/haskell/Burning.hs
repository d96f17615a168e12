-- | What burns. Functions that recur and are exported have symbols of their own; loops inside of others have none.
module Burning (hotSixty, hotThirty, hotTen, Burner (..), Thirty (..)) where

import Data.Word (Word64)

hotSixty, hotThirty, hotTen :: Word64 -> Word64 -> Word64
hotSixty 0 x = x
hotSixty i x = hotSixty (i - 1) (x * 6364136223846793005 + 60)
hotThirty 0 x = x
hotThirty i x = hotThirty (i - 1) (x * 6364136223846793005 + 30)
hotTen 0 x = x
hotTen i x = hotTen (i - 1) (x * 6364136223846793005 + 10)
{-# NOINLINE hotSixty #-}
{-# NOINLINE hotThirty #-}
{-# NOINLINE hotTen #-}

class Burner b where
  burn :: b -> Word64 -> Word64 -> Word64

newtype Thirty = Thirty Word64

instance Burner Thirty where
  burn (Thirty extra) n x = hotThirty n (x + extra) + 1
  {-# NOINLINE burn #-}
