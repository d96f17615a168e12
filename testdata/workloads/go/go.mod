module threeway

go 1.18
