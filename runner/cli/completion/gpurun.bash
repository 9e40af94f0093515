_gpurun() {
    local cur=${COMP_WORDS[COMP_CWORD]} line=${COMP_LINE:0:COMP_POINT} found files= words word
    # readline splits a word at = and :, which job names may contain, and replaces only its last part.
    word=${line##*[[:space:]]}
    [[ $word == *"$cur" && $cur != [=:@] ]] || cur=
    read -ra words <<<"$line"
    [[ -n $word ]] || words+=('')
    found=$(gpurun __complete -- "${words[@]:1}" 2>/dev/null) && files=1
    local IFS=$'\n'
    COMPREPLY=($(cut -f 1 <<<"$found"))
    COMPREPLY=("${COMPREPLY[@]#"${word%"$cur"}"}")
    [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        COMPREPLY+=($(compgen -f -- "$cur"))
    fi
}
complete -F _gpurun gpurun
