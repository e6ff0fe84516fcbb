// ai_sdk.mjs - Vercel's AI SDK: a tool that runs code in an E2B sandbox, and OpenAI's hosted one of the Responses door.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from './kit.mjs'

const { generateText, stepCountIs, streamText, tool } = await load('ai')
const { createOpenAI } = await load('@ai-sdk/openai')
const { Sandbox } = await load('@e2b/code-interpreter')
const { z } = await load('zod')

test('a tool runs code in a sandbox', async () => {
  const openai = createOpenAI({ baseURL: process.env.MODEL_URL, apiKey: 'k' })
  const sandbox = await Sandbox.create()
  try {
    const { text, fullStream } = streamText({
      model: openai.chat('tool'), prompt: 'What is 6*7?', stopWhen: stepCountIs(3),
      tools: { execute_python: tool({
        description: 'runs Python', inputSchema: z.object({ code: z.string() }),
        execute: async ({ code }) => (await sandbox.runCode(code)).text }) },
    })
    const outputs = []
    for await (const part of fullStream)
      if (part.type === 'tool-result') outputs.push(part.output)
    assert.deepEqual(outputs, ['42'])
    assert.equal(await text, 'It is 42')
  } finally {
    await sandbox.kill()
  }
})

test('the hosted tool of the Responses door', async () => {
  const openai = createOpenAI({ baseURL: `${process.env.E2B_API_URL}/v1`, apiKey: process.env.E2B_API_KEY })
  const asked = { model: openai.responses('sum'), prompt: 'What is 6*7?',
    tools: { code_interpreter: openai.tools.codeInterpreter({}) } }
  const { text, toolResults } = await generateText(asked)
  assert.equal(text, 'It is 42')
  assert.deepEqual(toolResults[0].output.outputs, [{ type: 'logs', logs: '42\n' }])
  let streamed = ''
  for await (const piece of streamText(asked).textStream) streamed += piece
  assert.equal(streamed, 'It is 42')
})
