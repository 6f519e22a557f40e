resource "terraform_data" "a" {
  input = "y"
}

output "a" {
  value = terraform_data.a.output
}
