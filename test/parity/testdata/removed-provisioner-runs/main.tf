resource "terraform_data" "a" {
  input = "bye"
}
