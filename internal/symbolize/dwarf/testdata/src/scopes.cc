// Functions in what has no linkage, in every kind of scope.
typedef unsigned long number;
#define APART __attribute__((noinline))
#define INTO __attribute__((always_inline))

volatile number sink;

// No two functions have the same code, which GCC would make one of.
#define WORK(n) (sink = (n) + __LINE__)

namespace shop {
template <class F> inline number each(number n, F f)
{
	number all = 0;
	while (n--) all += f(n);
	return all;
}

number sorter(number n)
{
	struct Local {
		APART static number still(number n) { return WORK(n); }
		APART number member(number n) const { return WORK(n); }
	};
	struct {
		APART number operator()(number n) const { return WORK(n); }
	} unnamed;
	auto apart = [](number n) APART { return WORK(n); };
	auto within = [n](number k) INTO {
		auto inner = [k](number q) APART { return WORK(q * k); };
		return inner(n) + WORK(k);
	};
	number (*pointer)(number) = apart;
	{
		struct Block {
			APART static number still(number n) { return WORK(n); }
		};
		WORK(Block::still(n));
	}
	return Local::still(n) + Local().member(n) + unnamed(n) + each(n, apart) + each(n, within) + each(n, pointer);
}

template <class T> APART T shape(T n)
{
	return [](T n) APART { return WORK(n); }(n);
}
static APART number hidden(number n)
{
	return [](auto n) APART { return WORK(n); }(n);
}

namespace {
struct Unseen {
	APART static number outside(number n);
	APART number method(number n) const
	{
		return [this](number n) APART { return WORK(n + number(this)); }(n);
	}
	struct Inner;
};
struct Unseen::Inner {
	APART static number still(number n) { return WORK(n); }
};
number Unseen::outside(number n) { return Inner::still(n) + WORK(n); }
}

struct Seen {
	static number outside(number n);
	struct Inner;
};
struct Seen::Inner {
	APART static number still(number n) { return WORK(n); }
};
number Seen::outside(number n)
{
	struct Local {
		APART static number still(number n) { return WORK(n); }
	};
	return Local::still(n) + Inner::still(n);
}
}

int main(int argc, char **)
{
	auto last = [](number n) APART { return WORK(n); };
	return shop::sorter(argc) + shop::hidden(argc) + shop::Unseen::outside(argc) + shop::Unseen().method(argc) +
	       shop::Seen::outside(argc) + shop::shape(argc) + last(argc);
}
