--  GNAT's names have all that is around, whether or not that is in the DIEs.
procedure Nested is
   X : Integer := 1;
   pragma Volatile (X);

   package Shop is
      function Outer (N : Integer) return Integer;
   end Shop;

   package body Shop is
      function Within (K : Integer) return Integer is
      begin
         X := K;
         return K * X;
      end Within;
      pragma Inline_Always (Within);

      function "+" (A : Integer; B : Boolean) return Integer is
      begin
         X := A;
         return (if B then X else 0);
      end "+";
      pragma No_Inline ("+");

      function Outer (N : Integer) return Integer is
         function Inner (K : Integer) return Integer is
         begin
            X := K;
            return K * N + X;
         end Inner;
         pragma No_Inline (Inner);
      begin
         return Inner (N) + Inner (X) + Within (N) + (N + True);
      end Outer;
      pragma No_Inline (Outer);
   end Shop;
begin
   X := Shop.Outer (X);
end Nested;
