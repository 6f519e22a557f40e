resource "terraform_data" "b" {
  input = terraform_data.a.output
}
