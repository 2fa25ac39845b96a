/** What every generated file has, whatever its products: the parts of `templates/client` as one text. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Each needs those before it. */
const PARTS = ['values', 'connection', 'reads', 'changes', 'sql']
const FOLDER = join(import.meta.dirname, '../templates/client')

const partsOf = (language: string, ending: string): readonly string[] =>
  PARTS.map((part) => readFileSync(join(FOLDER, language, `${part}.${ending}`), 'utf8'))

export function scriptTemplate(): string {
  const withoutImports = partsOf('ts', 'ts').map((text) => text.replace(/^import [^']*'\.\/[^']*'\n+/gm, ''))
  return withoutImports.join('\n')
}

/** Of `typing`, by what is written for a product. */
const TYPING = ['Any', 'Callable', 'Literal', 'Mapping', 'NoReturn', 'Optional', 'TypedDict', 'Union']

/** Imports stand at the top, each once; a part's own end at the first two empty lines. */
export function pythonTemplate(): string {
  const parts = partsOf('python', 'py').map((text) => {
    const end = text.indexOf('\n\n\n')
    return { head: text.slice(0, end), body: text.slice(end) }
  })
  const heads = parts.map(({ head }) => head).join('\n')
  const modules = new Set([...heads.matchAll(/^import ([\w.]+)$/gm)].map(([, name]) => name as string))
  const named = [...heads.matchAll(/^from typing import (.*)$/gm)].flatMap(([, names = '']) => names.split(', '))
  const typing = new Set([...named, ...TYPING].filter((name) => name !== 'TYPE_CHECKING'))
  return [
    'from __future__ import annotations\n\n',
    ...[...modules].toSorted().map((name) => `import ${name}\n`),
    `from typing import (\n${[...typing]
      .toSorted()
      .map((name) => `    ${name},\n`)
      .join('')})\n`,
    ...parts.map(({ body }) => body.trimEnd()),
    '\n',
  ].join('')
}
