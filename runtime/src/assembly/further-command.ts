/** Apart, since the command looks at it before it loads anything. */

/** How the command is called in a further process of a runtime, by the first one and nobody else. */
export const FURTHER_PROCESS = 'further-process'
