#pragma once
#include <string>
#include <vector>

namespace shapes {
namespace {
inline int hidden(int n) { return n * 31 + 7; }
}

struct Shape {
	explicit Shape(std::string name);
	virtual ~Shape();
	virtual double area() const = 0;
	std::string const &name() const { return name_; }

private:
	std::string name_;
};

template <class T> T largest(std::vector<T> const &all)
{
	T best = all.front();
	for (auto const &x : all)
		if (best < x) best = x;
	return best;
}

inline namespace v1 {
struct Circle : Shape {
	Circle(double r);
	double area() const override;
	double r;
};
}
} // namespace shapes
