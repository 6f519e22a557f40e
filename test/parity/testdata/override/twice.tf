output "which" {
  value = "tf"
}
