locals {
  l = []
}

output "a" {
  value = file("nope.txt")
}
