/** The index of the decisions, from the head that each of them begins with. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { table } from './table.ts'

const INTRODUCTION = `# Decisions

Made by \`node docs/generate.ts\` from the heads of the pages in \`docs/decisions\`; not to be edited. What somebody may want
to undo one day has a page there: what was decided, why, what it costs, and what was not chosen.
`

const FILE = /^(\d{4})-[a-z0-9-]+\.md$/
const HEAD =
  /^# (\d+)\. (.+)\n\n\*\*Status\.\*\* Accepted on (\d{4}-\d{2}-\d{2})(?:; superseded by \[decision (\d+)\]\((.+)\))?\.\n\n/

/** How a page has to begin, for whoever writes one. */
const WANTED =
  '"# N. Title", an empty line, "**Status.** Accepted on YYYY-MM-DD." or "**Status.** Accepted on YYYY-MM-DD; ' +
  'superseded by [decision M](MMMM-name.md).", and an empty line'

export interface Decision {
  readonly file: string
  readonly number: number
  readonly title: string
  /** As YYYY-MM-DD. */
  readonly acceptedOn: string
  /** The file of the page that holds in its place; null while it holds itself. */
  readonly supersededBy: string | null
}

/** Throws, with how a page has to begin, where one begins otherwise. */
export function decisionOf(file: string, text: string): Decision {
  const [, prefix] = FILE.exec(file) ?? []
  const [, number, title, acceptedOn, other, link] = HEAD.exec(text) ?? []
  if (prefix === undefined) throw new Error(`docs/decisions/${file}: its name is not NNNN-words.md`)
  if (number === undefined || title === undefined || acceptedOn === undefined)
    throw new Error(`docs/decisions/${file} does not begin with ${WANTED}`)
  if (Number(prefix) !== Number(number)) throw new Error(`docs/decisions/${file}: its title has the number ${number}`)
  if (Number.isNaN(Date.parse(acceptedOn))) throw new Error(`docs/decisions/${file}: there is no day ${acceptedOn}`)
  if (other !== undefined && Number(link?.slice(0, 4)) !== Number(other))
    throw new Error(`docs/decisions/${file}: superseded by decision ${other}, and the link names ${link}`)
  return { file, number: Number(number), title, acceptedOn, supersededBy: link ?? null }
}

/** Throws where two have one number, or where one is superseded by a page that is not there. */
export function decisionsIn(folder: string): readonly Decision[] {
  const files = readdirSync(folder).sort()
  const decisions = files.map((file) => decisionOf(file, readFileSync(join(folder, file), 'utf8')))
  for (const [index, { file, number, supersededBy }] of decisions.entries()) {
    if (decisions[index - 1]?.number === number) throw new Error(`docs/decisions: two have the number ${number}`)
    if (supersededBy !== null && !files.includes(supersededBy))
      throw new Error(`docs/decisions/${file} is superseded by ${supersededBy}, which is not there`)
  }
  return decisions
}

export function decisionsPage(folder: string): string {
  const rows = decisionsIn(folder).map(({ file, number, title, acceptedOn, supersededBy }) => [
    String(number),
    `[${title}](../decisions/${file})`,
    acceptedOn,
    supersededBy === null
      ? 'accepted'
      : `superseded by [${Number(supersededBy.slice(0, 4))}](../decisions/${supersededBy})`,
  ])
  return `${INTRODUCTION}\n${table(['', 'decision', 'accepted on', 'status'], rows)}`
}
