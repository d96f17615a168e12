module example.com/cgoprog

go 1.18
