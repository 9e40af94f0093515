function __gpurun_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    if gpurun __complete -- $words[2..] "$word" 2>/dev/null
        set -l flag (string match -r '^-[^=]*=' -- $word)
        for file in (__fish_complete_path (string replace -- "$flag" '' $word))
            echo "$flag$file"
        end
    end
end
complete -c gpurun -f -a '(__gpurun_complete)'
