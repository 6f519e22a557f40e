output "more" {
  value = 1
}
