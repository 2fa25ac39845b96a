/** The pages that tell people what to type: their blocks, the commands in them, their tables and links. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '..')

/** What was true once, and what is made from elsewhere, is no page to follow. */
const OTHERS =
  /(^|\/)(node_modules|decisions|generated|proofs|\.sluice|\.github|templates)\/|CHANGELOG\.md$|^sdk\/api\.md$/

export interface Page {
  /** From the root of the repository. */
  readonly path: string
  readonly text: string
}

export function guidePages(): readonly Page[] {
  const paths = globSync('**/*.md', { cwd: ROOT, exclude: (name) => /node_modules|^\.sluice/.test(String(name)) })
  return paths
    .filter((path) => !OTHERS.test(path))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))
}

/** Of what begins there: 1 is the first. */
export const lineAt = (text: string, index: number): number => text.slice(0, index).split('\n').length

export interface Block {
  /** Empty where none is named. */
  readonly language: string
  readonly text: string
  /** The file that the line before it names: `shop.json`. */
  readonly file: string | null
  /** Of its first line, in the page. */
  readonly line: number
}

export function blocksOf(text: string): readonly Block[] {
  return Array.from(text.matchAll(/^```([a-z]*)\n([^]*?)^```$/gm), (found) => {
    return {
      language: found[1] as string,
      text: found[2] as string,
      file: /`([\w.-]+)`:\n\n$/.exec(text.slice(0, found.index))?.[1] ?? null,
      line: lineAt(text, found.index) + 1,
    }
  })
}

/** The page without its blocks, whose lines stay, empty. */
export const proseOf = (text: string): string =>
  text.replaceAll(/^```[a-z]*\n[^]*?^```$/gm, (block) => block.replaceAll(/[^\n]/g, ''))

export interface Typed {
  readonly line: number
  /** Words behind `sluice`. */
  readonly argv: readonly string[]
  /** It stands in a sentence, which may name a command without what has to follow it. */
  readonly isMention: boolean
}

/** It goes on behind a line that ends with a backslash. */
const COMMAND_LINE = /(?:\\\n|[^\n])+/g

/** Every `sluice …` of a page: in its blocks as a shell would take it, and in its sentences. */
export function commandsOf(text: string): readonly Typed[] {
  const typed = blocksOf(text).flatMap((block) =>
    Array.from(block.text.matchAll(COMMAND_LINE)).flatMap(({ 0: written, index }) => {
      const isShell = ['sh', 'bash'].includes(block.language) || /^(\$ |npx )/.test(written)
      const line = block.line + lineAt(block.text, index) - 1
      const found = isShell ? inShell(written.replaceAll(/\\\n */g, ' ')) : []
      return found.map((argv) => ({ line, argv, isMention: false }))
    }),
  )
  const prose = proseOf(text)
  const mentioned = Array.from(prose.matchAll(/`(?:npx )?sluice ([^`]+)`/g), (found) => ({
    line: lineAt(prose, found.index),
    argv: wordsOf(found[1] as string)[0] ?? [],
    isMention: true,
  }))
  return [...typed, ...mentioned]
}

/** The commands of one line that are ours, `$(…)` within it included. */
function inShell(line: string): readonly (readonly string[])[] {
  const inner = [...line.matchAll(/\$\(([^()]*)\)/g)].flatMap((found) => inShell(found[1] as string))
  const outer = wordsOf(line.replace(/^\$ /, '').replaceAll(/\$\([^()]*\)/g, 'value'))
  const ours = outer.flatMap((words) => {
    const own = words.slice(words.findIndex((word) => !/^(npx|\w+=.*)$/.test(word)))
    return own[0] === 'sluice' ? [own.slice(1)] : []
  })
  return [...inner, ...ours]
}

/** Words of each command of a line, without quotes, comments and what leads their output elsewhere. */
function wordsOf(line: string): readonly (readonly string[])[] {
  const commands: string[][] = [[]]
  for (const [token] of line.matchAll(/#.*$|&&|\|\||[|;]|[<>]+ *\S+|(?:'[^']*'|"[^"]*"|[^\s'"|;<>#]|(?<=\S)#)+/g)) {
    if (token.startsWith('#')) break
    if (/^(&&|\|\||\||;)$/.test(token)) commands.push([])
    else if (!/^[<>]/.test(token)) commands.at(-1)?.push(token.replaceAll(/['"]/g, ''))
  }
  return commands.filter((words) => words.length > 0)
}

export interface Address {
  readonly line: number
  /** Null where the page does not say how it is asked. */
  readonly method: string | null
  readonly path: string
}

/** Addresses of the interface: `POST /api/v1/query` in sentences, and what stands behind the server's own in commands. */
export function addressesOf(text: string): readonly Address[] {
  const found = text.matchAll(
    /`(GET|POST|PUT|PATCH|DELETE) (\/[^`\s?]*)|\$(?:SLUICE_)?URL(\/[^\s"'?`]*)|`(\/api\/v1\/[^`\s?]*)/g,
  )
  return Array.from(found, (one) => ({
    line: lineAt(text, one.index),
    method: one[1] ?? null,
    path: (one[2] ?? one[3] ?? one[4] ?? '').replace(/[.…]+$/, ''),
  }))
}
