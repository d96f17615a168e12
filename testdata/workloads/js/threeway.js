// threeway burns 60/30/10 % of its CPU in three functions, for as many seconds of CPU time as its argument says.
"use strict";

function hotSixty(n) {
	let x = n;
	for (let i = 0; i < n; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
	return x;
}
function hotThirty(n) {
	let x = n;
	for (let i = 0; i < n; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
	return x;
}
function hotTen(n) {
	let x = n;
	for (let i = 0; i < n; i++) x = (Math.imul(x, 1664525) + 1013904223) | 0;
	return x;
}

const callSixty = (n) => hotSixty(n) + 1;
const callThirty = (n) => hotThirty(n) + 1;
const callTen = (n) => hotTen(n) + 1;

function rounds(order) {
	let sum = 0;
	for (const which of order) {
		if (which === 0) sum += callSixty(20000);
		else if (which === 1) sum += callThirty(20000);
		else sum += callTen(20000);
	}
	return sum;
}

const end = Number(process.argv[2]) * 1e6;
console.log("READY");
const order = [0, 1, 0, 0, 1, 0, 2, 0, 1, 0];
const used = () => {
	const u = process.cpuUsage();
	return u.user + u.system;
};
while (used() < end) rounds(order);
