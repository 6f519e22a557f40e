output "string" {
  value = "changed"
}

output "multi" {
  value = "a\nc\n"
}

output "object" {
  value     = { a = 1 }
  sensitive = true
}

output "new" {
  value = 1
}
