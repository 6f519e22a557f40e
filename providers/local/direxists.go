package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/function"
)

// dirExists is the function direxists.
type dirExists struct{}

func (dirExists) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "direxists"
}

func (dirExists) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary:             "Whether there is a directory at a path.",
		MarkdownDescription: "Whether there is a directory at a path. Anything else there is an error. `~` isn't expanded: use `pathexpand`.",
		Parameters:          []function.Parameter{function.StringParameter{Name: "path", MarkdownDescription: "The path."}},
		Return:              function.BoolReturn{},
	}
}

func (dirExists) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var name string
	if resp.Error = req.Arguments.Get(ctx, &name); resp.Error != nil {
		return
	}
	if name == "" {
		name = "." // what an empty path is once it's made absolute
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		resp.Error = resp.Result.Set(ctx, false)
	case err != nil:
		resp.Error = function.NewArgumentFuncError(0, fmt.Sprintf("Error checking for directory: %s", err))
	case !info.IsDir():
		resp.Error = function.NewArgumentFuncError(0, fmt.Sprintf("%q was found, but is not a directory", name))
	default:
		resp.Error = resp.Result.Set(ctx, true)
	}
}
