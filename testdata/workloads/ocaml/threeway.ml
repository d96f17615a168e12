(* threeway burns 60/30/10 % of its CPU at the ends of three chains of calls, for as many seconds of CPU time as its
   argument says. The thirty's chain goes through a function of its caller, a closure and an exception handler. *)

let[@inline never] hot_sixty n =
  let x = ref n in
  for _ = 1 to n do x := (!x * 2862933555777941757) + 60 done;
  !x

let[@inline never] hot_thirty n =
  let x = ref n in
  for _ = 1 to n do x := (!x * 2862933555777941757) + 30 done;
  !x

let[@inline never] hot_ten n =
  let x = ref n in
  for _ = 1 to n do x := (!x * 2862933555777941757) + 10 done;
  !x

let[@inline never] sixty_2 n = hot_sixty n + 1
let[@inline never] sixty_1 n = sixty_2 n + 1

(* Through allocates, so that the collector's entries are in the program too. *)
let[@inline never] through f n = match f n with
  | x -> [ x; 1 ]
  | exception Not_found -> []

let[@inline never] thirty_1 n = List.length (through (fun m -> hot_thirty m + n) n)
let[@inline never] ten_1 n = hot_ten n + 1

let[@inline never] rounds order slice =
  Array.fold_left
    (fun sum which -> sum + if which = 0 then sixty_1 slice else if which = 1 then thirty_1 slice else ten_1 slice)
    0 order

let () =
  let seconds = float_of_string Sys.argv.(2) in
  print_endline "READY";
  let order = [| 0; 1; 0; 0; 1; 0; 2; 0; 1; 0 |] in
  let sum = ref 0 in
  while Sys.time () < seconds do sum := !sum + rounds order 12000 done;
  Printf.printf "{\"sum\":%d}\n" (!sum land 1)
