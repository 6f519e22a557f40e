terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

data "lab_echo" "e" {
  say = "fail"
}

output "o" {
  value = data.lab_echo.e.heard
}
