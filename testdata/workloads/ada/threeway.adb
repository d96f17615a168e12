--  threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its
--  argument says. The thirty's chain goes through a generic and a dispatching call, the ten's
--  through an exception handler.
with Ada.Command_Line;
with Ada.Text_IO;
with Burning;
with Interfaces.C;

procedure Threeway is
   use type Interfaces.C.long;
   use type Burning.Word;

   function Clock return Interfaces.C.long
     with Import, Convention => C, External_Name => "clock";

   End_Time : constant Interfaces.C.long :=
     Interfaces.C.long (Long_Float'Value (Ada.Command_Line.Argument (2)) * 1.0e6);
   Total : Burning.Word := 0;
begin
   Ada.Text_IO.Put_Line ("READY");
   Ada.Text_IO.Flush;
   while Clock < End_Time loop
      Total := Total + Burning.Rounds (12_000);
   end loop;
   Ada.Text_IO.Put_Line ("{""sum"":" & (if (Total and 1) = 1 then "1" else "0") & "}");
end Threeway;
