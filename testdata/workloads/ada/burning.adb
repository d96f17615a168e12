package body Burning is

   Odd : exception;

   function Hot_Sixty (N : Word) return Word with No_Inline;
   function Hot_Thirty (N : Word) return Word with No_Inline;
   function Hot_Ten (N : Word) return Word with No_Inline;
   function Sixty_1 (N : Word) return Word with No_Inline;
   function Sixty_2 (N : Word) return Word with No_Inline;
   function Thirty_1 (N : Word) return Word with No_Inline;
   function Ten_1 (N : Word) return Word with No_Inline;

   function Hot_Sixty (N : Word) return Word is
      X : Word := N;
   begin
      for I in 1 .. N loop
         X := X * 6364136223846793005 + 60;
      end loop;
      return X;
   end Hot_Sixty;

   function Hot_Thirty (N : Word) return Word is
      X : Word := N;
   begin
      for I in 1 .. N loop
         X := X * 6364136223846793005 + 30;
      end loop;
      return X;
   end Hot_Thirty;

   function Hot_Ten (N : Word) return Word is
      X : Word := N;
   begin
      for I in 1 .. N loop
         X := X * 6364136223846793005 + 10;
      end loop;
      return X;
   end Hot_Ten;

   function Sixty_2 (N : Word) return Word is (Hot_Sixty (N) + 1);
   function Sixty_1 (N : Word) return Word is (Sixty_2 (N) + 1);

   package body Levels is
      function Run (L : Level; N : Word) return Word is (Hot_Thirty (N) + L.Extra);
   end Levels;

   generic
      Plus : Word;
   package Through is
      function "+" (L : Levels.Level'Class; N : Word) return Word with No_Inline;
   end Through;

   package body Through is
      function "+" (L : Levels.Level'Class; N : Word) return Word is (L.Run (N) + Plus);
   end Through;

   package Twice is new Through (2);

   function Thirty_1 (N : Word) return Word is
      L : Levels.Level;
   begin
      return Twice."+" (L, N) + 1;
   end Thirty_1;

   function Ten_1 (N : Word) return Word is
   begin
      if Hot_Ten (N) = 0 then
         raise Odd;
      end if;
      return 1;
   exception
      when Odd => return 2;
   end Ten_1;

   Order : constant array (1 .. 10) of Natural := (0, 1, 0, 0, 1, 0, 2, 0, 1, 0);

   function Rounds (Slice : Word) return Word is
      Sum : Word := 0;
   begin
      for Which of Order loop
         case Which is
            when 0 => Sum := Sum + Sixty_1 (Slice);
            when 1 => Sum := Sum + Thirty_1 (Slice);
            when others => Sum := Sum + Ten_1 (Slice);
         end case;
      end loop;
      return Sum;
   end Rounds;

end Burning;
