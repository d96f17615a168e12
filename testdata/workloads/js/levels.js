// levels burns 60/30/10 % of its CPU in three functions that are called by way of others, of several kinds, for as many seconds of CPU time
// as its argument says. What calls is short, so that compilers put all of it in one place.
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

class Sixty {
	constructor(n) {
		this.n = n;
	}
	static start(n) {
		const s = new Sixty(n);
		return s.call(1);
	}
	call(more) {
		return hotSixty(this.n) + more;
	}
}

const thirty = {
	inner: (n) => hotThirty(n) + 1,
	outer(n) {
		return thirty.inner(n) + 1;
	},
};

function tenth(n) {
	return [n].map(function each(x) {
		return hotTen(x) + 1;
	})[0];
}

function rounds(order) {
	let sum = 0;
	for (const which of order) {
		if (which === 0) sum += Sixty.start(20000);
		else if (which === 1) sum += thirty.outer(20000);
		else sum += tenth(20000);
	}
	return sum;
}

function main(end) {
	const order = [0, 1, 0, 0, 1, 0, 2, 0, 1, 0];
	const used = () => {
		const u = process.cpuUsage();
		return u.user + u.system;
	};
	while (used() < end) rounds(order);
}

console.log("READY");
main(Number(process.argv[2]) * 1e6);
