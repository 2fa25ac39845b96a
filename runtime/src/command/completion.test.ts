/** What a shell offers is what the commands take, asked of the shells themselves where they are there. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { SWITCHES } from './arguments.ts'
import { COMMON_FLAGS, callOf, REMOTE_FLAGS } from './command.ts'
import { COMMANDS } from './main.ts'

const script = async (...words: string[]): Promise<string> =>
  String(await COMMANDS['completion']?.run(callOf({ words: [], flags: {} }, words, { environment: {}, flags: {} })))

const has = (shell: string) => spawnSync(shell, ['--version']).status === 0
const secondWords = (first: string) =>
  Object.keys(COMMANDS).flatMap((name) => (name.startsWith(`${first} `) ? [name.split(' ')[1] as string] : []))
const flagsOf = (name: string) => {
  const { flags = {}, remote } = COMMANDS[name] ?? assert.fail(name)
  return Object.keys({ ...flags, ...(remote ? REMOTE_FLAGS : {}), ...COMMON_FLAGS }).map((flag) => `--${flag}`)
}

describe('completion', () => {
  it('is refused for another shell, and for none', async () => {
    await assert.rejects(script('tcsh'), /SHELL is one of bash, zsh, fish/)
    await assert.rejects(script('constructor'), /SHELL is one of/)
    await assert.rejects(script(), /SHELL is missing/)
  })

  /** Each line: words that stand there, the last of which is being typed. */
  const lines: readonly (readonly [readonly string[], readonly string[]])[] = [
    [[''], [...new Set(['help', ...Object.keys(COMMANDS).map((name) => name.split(' ')[0] as string)])]],
    [['prod'], ['product']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['--url', 'http://a', 'token', ''], secondWords('token')],
    [['token', '--json', ''], secondWords('token')],
    [['product', 'list', ''], []],
    [['query', '--format', ''], []],
    ...[...new Set(Object.keys(COMMANDS).map((name) => name.split(' ')[0] as string))]
      .filter((first) => secondWords(first).length > 0)
      .map((first) => [[first, ''], secondWords(first)] as const),
    ...Object.keys(COMMANDS).map((name) => [[...name.split(' '), '--'], flagsOf(name)] as const),
  ]

  // Zsh is where somebody uses it; both run the same lines.
  for (const shell of ['bash', 'zsh'].filter((one) => one === 'bash' || has(one))) {
    it(`in ${shell} offers the words and flags of each command`, {
      skip: !has(shell) && `${shell} is not here`,
    }, async () => {
      const [head = '', body = ''] = (await script(shell)).split(/^(?=_sluice\(\))/m)
      assert.match(body, /_sluice sluice$/)
      const asked = lines.map(([words]) => {
        const [typed, ...before] = [words.at(-1) as string, ...words.slice(0, -1)]
        return `echo "$(_sluice_next ${[typed, ...before].map((word) => `'${word}'`).join(' ')})"`
      })
      const { stdout, stderr } = spawnSync(shell, ['-c', [head, ...asked].join('\n')], { encoding: 'utf8' })
      assert.equal(stderr, '')
      for (const [at, said] of stdout.trimEnd().split('\n').entries()) {
        const [words = [], expected = []] = lines[at] ?? assert.fail(said)
        const offered = said.split(' ').filter((one) => one.startsWith(words.at(-1) as string) && one !== '')
        assert.deepEqual(offered.toSorted(), [...expected].toSorted(), words.join(' '))
      }
      assert.equal(stdout.trimEnd().split('\n').length, lines.length)
    })
  }

  it('in bash is what the shell itself calls', async () => {
    const typed = `COMP_WORDS=(sluice quar ''); COMP_CWORD=1; _sluice; echo "\${COMPREPLY[*]}"`
    const { stdout } = spawnSync('bash', ['-c', `${await script('bash')}\n${typed}`], { encoding: 'utf8' })
    assert.equal(stdout.trim(), 'quarantine')
  })

  it('in fish names each command and each of its flags once, and which take a value', async () => {
    const text = await script('fish')
    for (const name of Object.keys(COMMANDS)) {
      const own = text.split('\n').filter((line) => line.includes(`^sluice ${name}( |$)`))
      const offered = own.map((line) => `--${/ -l (\S+)/.exec(line)?.[1]}`)
      assert.deepEqual(offered.toSorted(), flagsOf(name).toSorted(), name)
      for (const line of own) assert.equal(/ -f -d /.test(line), SWITCHES.includes(/ -l (\S+)/.exec(line)?.[1] ?? ''))
    }
  })
})
