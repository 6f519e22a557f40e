output "string" {
  value = "s"
}

output "multi" {
  value = "a\nb\n"
}

output "number" {
  value = 1.5
}

output "object" {
  value       = { a = null, "b c" = [true] }
  description = "an object"
}

output "set" {
  value = toset(["b", "a"])
}

output "null" {
  value = null
}

output "empty" {
  value = []
}

output "bool" {
  value = false
}
