resource "terraform_data" "a" {
  input = "overridden"
}
