{ threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its argument
  says. The sixty's chain goes through methods of a generic class, the thirty's through a virtual method and a nested function,
  the ten's through an exception handler. With LIBC defined it is linked with C's library, without it has no library at all. }
program Threeway;

{$mode objfpc}{$H+}
{$ifdef LIBC}{$linklib c}{$endif}

uses
  SysUtils, Linux, UnixType;

type
  generic TLevel<T> = class
    Value: T;
    function Run(n: QWord): QWord;
  end;

  TBurner = class
    function Burn(n: QWord): QWord; virtual; abstract;
  end;

  TThirty = class(TBurner)
    Extra: QWord;
    function Burn(n: QWord): QWord; override;
  end;

  TWord = specialize TLevel<QWord>;

function HotSixty(n: QWord): QWord;
var
  i: QWord;
begin
  Result := n;
  for i := n downto 1 do
    Result := Result * QWord(6364136223846793005) + 60;
end;

function HotThirty(n: QWord): QWord;
var
  i: QWord;
begin
  Result := n;
  for i := n downto 1 do
    Result := Result * QWord(6364136223846793005) + 30;
end;

function HotTen(n: QWord): QWord;
var
  i: QWord;
begin
  Result := n;
  for i := n downto 1 do
    Result := Result * QWord(6364136223846793005) + 10;
end;

function TLevel.Run(n: QWord): QWord;
begin
  Result := HotSixty(n) + QWord(Value);
end;

function TThirty.Burn(n: QWord): QWord;

  function Inner(m: QWord): QWord;
  begin
    Result := HotThirty(m) + Extra;
  end;

begin
  Result := Inner(n) + 1;
end;

function Ten(n: QWord): QWord;
begin
  try
    Result := HotTen(n);
    if Result = 0 then
      raise Exception.Create('zero');
  except
    on Exception do Result := 2;
  end;
end;

function Rounds(Level: TWord; Thirty: TBurner; Slice: QWord): QWord;
const
  Order: array[0..9] of Integer = (0, 1, 0, 0, 1, 0, 2, 0, 1, 0);
var
  Which: Integer;
begin
  Result := 0;
  for Which in Order do
    case Which of
      0: Result := Result + Level.Run(Slice);
      1: Result := Result + Thirty.Burn(Slice);
    else
      Result := Result + Ten(Slice);
    end;
end;

function CPUTime: Int64;
var
  t: TTimeSpec;
begin
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, @t);
  Result := Int64(t.tv_sec) * 1000000000 + t.tv_nsec;
end;

var
  Finish: Int64;
  Total: QWord;
  Level: TWord;
  Thirty: TBurner;
begin
  Finish := Round(StrToFloat(ParamStr(2)) * 1e9);
  Level := TWord.Create;
  Level.Value := 1;
  Thirty := TThirty.Create;
  WriteLn('READY');
  Flush(Output);
  Total := 0;
  while CPUTime < Finish do
    Total := Total + Rounds(Level, Thirty, 12000);
  WriteLn('{"cpu_ns":', CPUTime, ',"sum":', Total and 1, '}');
end.
