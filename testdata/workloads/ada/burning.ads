--  What burns.
with Interfaces;

package Burning is
   subtype Word is Interfaces.Unsigned_64;
   use type Interfaces.Unsigned_64;

   function Rounds (Slice : Word) return Word
     with No_Inline;

   package Levels is
      type Level is tagged record
         Extra : Word := 1;
      end record;
      function Run (L : Level; N : Word) return Word
        with No_Inline;
   end Levels;
end Burning;
