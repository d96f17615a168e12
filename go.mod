module github.com/hostprofiles/hostprofiles

go 1.26
