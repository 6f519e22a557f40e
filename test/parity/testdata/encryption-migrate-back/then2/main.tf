resource "terraform_data" "a" {
  input = "z"
}

output "a" {
  value = terraform_data.a.output
}
