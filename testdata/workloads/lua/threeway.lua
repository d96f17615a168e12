-- threeway burns 60/30/10 % of its CPU in three functions that LuaJIT compiles to traces, for as many seconds of CPU time as its
-- argument says. Through a C function (table.foreach) the stack has native frames between them.
local bit = require("bit")

local function hotSixty(n)
	local x = n
	for i = 1, n do x = bit.tobit(x * 1664525 + 1013904223) end
	return x
end
local function hotThirty(n)
	local x = n
	for i = 1, n do x = bit.tobit(x * 1664525 + 1013904223) end
	return x
end
local function hotTen(n)
	local x = n
	for i = 1, n do x = bit.tobit(x * 1664525 + 1013904223) end
	return x
end

local order = { hotSixty, hotThirty, hotSixty, hotSixty, hotThirty, hotSixty, hotTen, hotSixty, hotThirty, hotSixty }
local seconds = tonumber(arg[1])
print("READY")
while os.clock() < seconds do
	for _, f in ipairs(order) do f(20000) end
	table.foreach(order, function(_, f) f(20000) end)
end
