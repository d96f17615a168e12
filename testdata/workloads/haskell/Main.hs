{-# LANGUAGE BangPatterns #-}

-- | threeway burns 60/30/10 % of its CPU in three functions, for as many seconds of CPU time as its argument says. The thirty
-- is called through a type class, the sixty by a function that is an argument.
module Main (main) where

import Burning
import Data.List (foldl')
import Data.Word (Word64)
import System.CPUTime (getCPUTime)
import System.Environment (getArgs)
import System.IO (hFlush, stdout)

through :: (Word64 -> Word64 -> Word64) -> Word64 -> Word64 -> Word64
through f n x = f n x + 1
{-# NOINLINE through #-}

-- | What burns depends on what burned before, or it would burn once.
rounds :: Burner b => b -> Word64 -> Word64 -> Word64
rounds thirty slice start = foldl' add start [0, 1, 0, 0, 1, 0, 2, 0, 1, 0 :: Int]
  where
    add total 0 = through hotSixty slice total
    add total 1 = burn thirty slice total
    add total _ = hotTen slice total
{-# NOINLINE rounds #-}

main :: IO ()
main = do
  args <- getArgs
  let finish = round (read (args !! 1) * 1e12 :: Double) :: Integer
  putStrLn "READY"
  hFlush stdout
  let run !total = do
        now <- getCPUTime
        if now >= finish then return total else run (rounds (Thirty 1) 12000 total)
  total <- run 0
  now <- getCPUTime
  putStrLn ("{\"cpu_ns\":" ++ show (now `div` 1000) ++ ",\"sum\":" ++ show (total `mod` 2) ++ "}")
