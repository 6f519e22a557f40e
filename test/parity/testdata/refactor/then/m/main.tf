resource "terraform_data" "a" {
  input = "a"
}

output "id" {
  value = terraform_data.a.id
}
