#compdef gpurun

_gpurun() {
    local line found files
    local -a offers
    found="$(gpurun __complete -- "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)" && files=1
    for line in ${(f)found}; do
        offers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if [[ $found == *'='$'\t'* ]]; then
        _describe word offers -S ''
    elif (( $#offers )); then
        _describe word offers
    fi
    if [[ -n $files ]]; then
        [[ $PREFIX == -*=* ]] && compset -P '*='
        _files
    fi
}

# Autoloaded from an fpath folder, this file is the body of the function.
if [[ $funcstack[1] == _gpurun ]]; then
    _gpurun "$@"
else
    compdef _gpurun gpurun
fi
