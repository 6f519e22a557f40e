resource "terraform_data" "a" {
  input = 5
}

check "health" {
  assert {
    condition     = terraform_data.a.output < 3
    error_message = "a is ${terraform_data.a.output}, not less than 3."
  }
  assert {
    condition     = terraform_data.a.output > 3
    error_message = "a is too small."
  }
}

check "data" {
  data "local_file" "missing" {
    filename = "missing.txt"
  }
  assert {
    condition     = data.local_file.missing.content == ""
    error_message = "missing.txt isn't empty."
  }
}
