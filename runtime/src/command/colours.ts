/** Colours for people at a terminal, and for nobody else. */

export type Colour = 'green' | 'yellow' | 'red' | 'faint'

/** Gives the text in that colour, or as it is. */
export type Painter = (text: string, colour: Colour | null) => string

const CODES: Readonly<Record<Colour, number>> = { green: 32, yellow: 33, red: 31, faint: 2 }

/** Where the output is a terminal that shows colours, and NO_COLOR is not set (https://no-color.org). */
export function painterFor(
  output: { readonly isTTY?: boolean },
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Painter {
  const isOff = (environment['NO_COLOR'] ?? '') !== '' || environment['TERM'] === 'dumb'
  if (output.isTTY !== true || isOff) return (text) => text
  return (text, colour) => (colour === null || text === '' ? text : `\u001b[${CODES[colour]}m${text}\u001b[0m`)
}

/** What a verdict or an action is to whoever has to decide: nothing to think of, to look at, or stands against it. */
const COLOUR_OF: Readonly<Record<string, Colour>> = {
  create: 'green',
  initial: 'green',
  additive: 'green',
  change: 'yellow',
  unchanged: 'faint',
  breaking: 'red',
  refused: 'red',
  remove: 'red',
}

export const colourOf = (word: string): Colour | null => COLOUR_OF[word] ?? null
