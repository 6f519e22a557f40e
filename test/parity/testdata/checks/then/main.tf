resource "terraform_data" "a" {
  input = 2
}

check "health" {
  assert {
    condition     = terraform_data.a.output < 3
    error_message = "a is ${terraform_data.a.output}, not less than 3."
  }
}
