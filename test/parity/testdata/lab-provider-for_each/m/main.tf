terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

data "lab_echo" "e" {
  say = "hello"
}

output "region" {
  value = data.lab_echo.e.region
}
