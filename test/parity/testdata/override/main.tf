resource "terraform_data" "a" {
  input = "main"
}
