module example.com/orders-rest

go 1.21
