#include "shapes.hh"
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace shapes {
Shape::Shape(std::string name) : name_(std::move(name)) {}
Shape::~Shape() {}

Circle::Circle(double r) : Shape("circle"), r(r)
{
	if (r < 0) throw std::invalid_argument("radius");
}

double Circle::area() const { return 3.14 * r * r; }

extern "C" int plain_in_namespace(int n) { return hidden(n) + 1; }
}

using namespace shapes;

static int sorted(std::vector<int> v)
{
	struct Less {
		bool operator()(int a, int b) const { return hidden(a) < hidden(b); }
	};
	std::sort(v.begin(), v.end(), Less());
	std::for_each(v.begin(), v.end(), [&](int n) { std::printf("%d\n", hidden(n)); });
	return largest(v);
}

int main(int argc, char **)
{
	std::vector<std::unique_ptr<Shape>> all;
	for (int i = 0; i < argc; i++) all.push_back(std::make_unique<Circle>(i));
	double sum = 0;
	for (auto const &s : all) sum += s->area() + double(s->name().size());
	try {
		Circle bad(-argc);
	} catch (std::exception const &e) {
		std::puts(e.what());
	}
	return int(sum) + sorted({3, 1, argc}) + plain_in_namespace(argc);
}
