# build.sh LIBRARY [FLAG...] compiles the stand-in for NVML, for the tests of several packages.
library=$1
shift
header=$(go list -f '{{.Dir}}' github.com/NVIDIA/go-nvml/pkg/nvml) || exit 1
exec cc -shared -fPIC -Wall -Werror -Wno-unused-function -O1 -DNVML_NO_UNVERSIONED_FUNC_DEFS=1 \
	-I "$header" -o "$library" "$@" "$(dirname "$0")/standin.c"
