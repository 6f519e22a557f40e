output "a" {
  value = file("nope.txt")
}

output "b" {
  value = tonumber("x")
}

output "c" {
  value = nosuch(1)
}

output "d" {
  value = upper()
}

output "e" {
  value = element([], 1)
}
