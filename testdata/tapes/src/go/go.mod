module tape

go 1.24
