module github.com/hashicorp/go-kms-wrapping/wrappers/azurekeyvault/v2

go 1.20
