/** `sluice completion`: what a shell needs to finish commands and flags, made of the table of the commands itself. */
import { SWITCHES, UsageError } from './arguments.ts'
import { COMMON_FLAGS, type Command, REMOTE_FLAGS, word } from './command.ts'

type Commands = Readonly<Record<string, Command>>

const SHELLS: Readonly<Record<string, (lines: Lines) => string>> = { bash, zsh, fish }

/** The table has it too, so it is asked for when the command runs. */
export const completionCommands = (all: () => Commands): Commands => ({
  completion: {
    usage: 'completion SHELL',
    summary: 'a script by which bash, zsh or fish completes commands and flags; its first lines say where to put it',
    flags: {},
    async run(call) {
      const shell = word(call, 0, 'SHELL')
      const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined
      if (script === undefined) throw new UsageError(`SHELL is one of ${Object.keys(SHELLS).join(', ')}`)
      return script(linesOf(all()))
    },
  },
})

interface Lines {
  /** By what stands before: the words that may follow, with what they do. */
  readonly words: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** By command: its flags, with what they mean. */
  readonly flags: ReadonlyMap<string, ReadonlyMap<string, string>>
}

function linesOf(commands: Commands): Lines {
  const words = new Map<string, Map<string, string>>([['', new Map([['help', 'the commands, or one of them']])]])
  const flags = new Map<string, Map<string, string>>()
  for (const [name, { summary, remote, flags: own = {} }] of Object.entries(commands)) {
    const [first = '', second] = name.split(' ')
    const group = second === undefined ? summary : `${first} …`
    const known = words.get('') as Map<string, string>
    if (!known.has(first) || second === undefined) known.set(first, group)
    if (second !== undefined) words.set(first, (words.get(first) ?? new Map()).set(second, summary))
    const all = { ...own, ...(remote ? REMOTE_FLAGS : {}), ...COMMON_FLAGS }
    flags.set(name, new Map(Object.entries(all)))
  }
  words.set('help', words.get('') as Map<string, string>)
  words.set('completion', new Map(Object.keys(SHELLS).map((shell) => [shell, `for ${shell}`])))
  return { words, flags }
}

const flagsOf = (named: ReadonlyMap<string, string>): string => [...named.keys()].map((flag) => `--${flag}`).join(' ')
const cases = (
  of: ReadonlyMap<string, ReadonlyMap<string, string>>,
  text: (names: ReadonlyMap<string, string>) => string,
) => [...of].map(([before, names]) => `    '${before}') echo '${text(names)}';;`).join('\n')
const TAKES_VALUE = `case "$1" in ${SWITCHES.map((name) => `--${name}`).join('|')}) return 1;; esac; [ "\${1#--}" != "$1" ]`

/** Both shells run it: what may follow the words that it is given. A flag's value is left to the names of files. */
const finder = ({ words, flags }: Lines): string => `_sluice_takes_value() { ${TAKES_VALUE}; }
_sluice_words() {
  case "$1" in
${cases(words, (names) => [...names.keys()].join(' '))}
  esac
}
_sluice_flags() {
  case "$1" in
${cases(flags, flagsOf)}
  esac
}
_sluice_next() {
  local current="$1" before='' first='' second='' word; shift
  for word in "$@"; do
    if _sluice_takes_value "$before"; then before=''; continue; fi
    before="$word"
    case "$word" in -*) continue;; esac
    if [ -z "$first" ]; then first="$word"; elif [ -z "$second" ]; then second="$word"; fi
  done
  if [ "\${before%%=*}" = "$before" ] && _sluice_takes_value "$before"; then return; fi
  case "$current" in
    -*) _sluice_flags "$first $second"; [ -n "$(_sluice_flags "$first $second")" ] || _sluice_flags "$first";;
    *) if [ -z "$second" ]; then _sluice_words "$first"; fi;;
  esac
}`

function bash(lines: Lines): string {
  return `# bash: put into ~/.bashrc  source <(sluice completion bash)
${finder(lines)}
_sluice() {
  local current="\${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=($(compgen -W "$(_sluice_next "$current" "\${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "$current"))
}
complete -o default -F _sluice sluice`
}

function zsh(lines: Lines): string {
  return `#compdef sluice
# zsh: put into ~/.zshrc, behind compinit  source <(sluice completion zsh)
${finder(lines)}
_sluice() {
  local -a found
  found=(\${(s: :)"$(_sluice_next "\${words[CURRENT]}" "\${(@)words[2,CURRENT-1]}")"})
  if (( \${#found} )); then compadd -a found; else _files; fi
}
compdef _sluice sluice`
}

const quoted = (text: string): string => `'${text.replaceAll(/[\\']/g, '\\$&')}'`

function fish({ words, flags }: Lines): string {
  const ofWords = [...words].flatMap(([first, names]) => {
    const when =
      first === ''
        ? '__fish_use_subcommand'
        : `__fish_seen_subcommand_from ${first}; and test (count (commandline -opc)) -eq 2`
    return [...names].map(([name, says]) => `complete -c sluice -n ${quoted(when)} -f -a ${name} -d ${quoted(says)}`)
  })
  const ofFlags = [...flags].flatMap(([name, own]) => {
    const when = `string match -qr ${quoted(`^sluice ${name}( |$)`)} -- (commandline -opc | string join ' ')`
    return [...own].map(([flag, says]) => {
      const value = SWITCHES.includes(flag) ? '-f' : '-r'
      return `complete -c sluice -n ${quoted(when)} -l ${flag} ${value} -d ${quoted(says)}`
    })
  })
  return ['# fish: sluice completion fish > ~/.config/fish/completions/sluice.fish', ...ofWords, ...ofFlags].join('\n')
}
