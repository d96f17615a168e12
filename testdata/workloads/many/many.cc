// many runs through much code, evenly: the standard library's containers and algorithms for several types, and each of it many
// times over, so that samples have thousands of different addresses, most of them in calls that were inlined.
#include "../common/hot.h"

#include <algorithm>
#include <complex>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

template <typename T> struct Make {
	static T from(uint64_t n) { return T(n); }
};
template <> struct Make<std::string> {
	static std::string from(uint64_t n) { return "value " + std::to_string(n); }
};

template <typename T, int Salt> class Suite
{
	std::mt19937_64 random{Salt};
	std::vector<T> values;
	uint64_t sum = Salt;

	T next() { return Make<T>::from(random() % (1000 + Salt)); }
	void use(const T &v) { sum = sum * 31 + std::hash<T>{}(v); }

	void sorting()
	{
		values.clear();
		std::generate_n(std::back_inserter(values), 200 + Salt, [this] { return next(); });
		std::sort(values.begin(), values.end(), [](const T &a, const T &b) { return Salt % 2 ? a < b : b < a; });
		values.erase(std::unique(values.begin(), values.end()), values.end());
		std::partial_sort(values.begin(), values.begin() + long(values.size() / 2), values.end());
		std::stable_partition(values.begin(), values.end(), [this](const T &v) { return std::hash<T>{}(v) % 3 == Salt % 3; });
		for (const T &v : values)
			use(v);
	}

	void trees()
	{
		std::map<T, int> map;
		std::set<T> set;
		for (int i = 0; i < 100; i++) {
			map[next()] += i;
			set.insert(next());
		}
		for (const auto &[key, count] : map)
			if (set.count(key) && count % 2)
				use(key);
		for (int i = 0; i < 50; i++)
			map.erase(next());
		sum += map.size();
	}

	void hashing()
	{
		std::unordered_map<T, std::vector<int>> map;
		for (int i = 0; i < 100; i++)
			map[next()].push_back(i);
		for (const auto &entry : map)
			sum += std::accumulate(entry.second.begin(), entry.second.end(), 0ull);
	}

	void queues()
	{
		std::priority_queue<T> heap;
		std::deque<T> deque;
		std::list<T> list;
		for (int i = 0; i < 60; i++) {
			heap.push(next());
			deque.push_front(next());
			list.push_back(next());
		}
		list.sort();
		list.unique();
		while (!heap.empty() && !deque.empty()) {
			if (heap.top() < deque.back())
				use(deque.back());
			heap.pop();
			deque.pop_back();
		}
		sum += list.size();
	}

	void text()
	{
		std::ostringstream out;
		for (int i = 0; i < 20; i++)
			out << next() << (i % 7 == Salt % 7 ? ';' : ',');
		std::istringstream in(out.str());
		for (std::string part; std::getline(in, part, ',');)
			sum += part.size() * part.find_first_of("0123456789" + std::to_string(Salt));
	}

	void callables()
	{
		std::vector<std::function<uint64_t(uint64_t)>> steps;
		for (uint64_t i = 0; i < 20; i++) {
			auto value = std::make_shared<T>(next());
			steps.emplace_back([value, i](uint64_t n) { return n * (i + Salt) + std::hash<T>{}(*value); });
		}
		for (const auto &step : steps)
			sum = step(sum);
	}

	void variants()
	{
		std::variant<char, double, T> v;
		for (int i = 0; i < 50; i++) {
			switch (random() % 3) {
			case 0: v.template emplace<0>(char(random())); break;
			case 1: v.template emplace<1>(double(Salt) / (i + 1)); break;
			default: v.template emplace<2>(next());
			}
			sum += std::visit([](const auto &x) { return std::hash<std::decay_t<decltype(x)>>{}(x); }, v);
		}
	}

	void numbers()
	{
		std::complex<double> z(1, Salt);
		double matrix[8][8];
		for (int i = 0; i < 64; i++)
			matrix[i / 8][i % 8] = std::sqrt(double(random() % 100)) + (z *= std::polar(1.0, 0.1 * Salt)).real();
		for (int k = 0; k < 8; k++)
			for (int i = k + 1; i < 8; i++)
				for (int j = k; j < 8; j++)
					matrix[i][j] -= matrix[k][j] * matrix[i][k] / (matrix[k][k] + 1);
		sum += uint64_t(std::abs(matrix[7][7]));
	}

      public:
	uint64_t run()
	{
		sorting();
		trees();
		hashing();
		queues();
		text();
		callables();
		variants();
		numbers();
		return sum;
	}
};

template <typename T, int... Salts> uint64_t all(std::integer_sequence<int, Salts...>)
{
	return (Suite<T, Salts>().run() + ...);
}

} // namespace

int main(int argc, char **argv)
{
	struct hot h;
	uint64_t sum = 0;
	hot_parse(&h, argc, argv, 0);
	hot_ready();
	do {
		sum += all<uint64_t>(std::make_integer_sequence<int, 22>());
		sum += all<std::string>(std::make_integer_sequence<int, 22>());
		sum += all<int>(std::make_integer_sequence<int, 16>());
		KEEP(sum);
		h.rounds++;
	} while (hot_running(&h));
	hot_done(&h);
	return 0;
}
