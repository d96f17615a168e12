	case 1: return twice(n) * 5;
	case 2: return square(n + 1);
	case 7: return add(n, 12) / 7;
