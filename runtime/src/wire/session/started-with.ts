/** The settings that the start of a session asks for: its own, and those of `options`, as `-c search_path=crm`. */
import { WireError } from '../protocol/wire-error.ts'

/** Of these the listener takes care. */
const OF_THE_START: ReadonlySet<string> = new Set(['user', 'database', 'options', 'replication'])

export function startedWith(start: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  if (!['', 'false', 'off', 'no', '0'].includes((start.get('replication') ?? '').toLowerCase())) {
    throw new WireError('0A000', 'there is no replication here', { isFatal: true })
  }
  const own = [...start].filter(([name]) => !OF_THE_START.has(name) && !name.startsWith('_pq_.'))
  return new Map([...optionsIn(start.get('options') ?? ''), ...own])
}

/** `-c name=value`, `-cname=value` and `--name=value`; blanks and backslashes of a value stand behind a backslash. */
function optionsIn(text: string): readonly (readonly [string, string])[] {
  const words = (text.match(/(?:\\[^]|[^\s\\])+/g) ?? []).map((word) => word.replace(/\\([^])/g, '$1'))
  const found: (readonly [string, string])[] = []
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? ''
    const told = word === '-c' ? (words[++at] ?? '') : word.replace(/^(?:-c|--)/, '')
    const [, name, value] = /^([A-Za-z_][\w.-]*)=([^]*)$/.exec(told) ?? []
    if (name === undefined || value === undefined || !word.startsWith('-')) {
      throw new WireError('42601', 'options are told as -c name=value', { isFatal: true })
    }
    found.push([name.replaceAll('-', '_'), value])
  }
  return found
}
