//! The prompts that the suite asks for.

use serde_json::{Value, json};

use crate::changes::Extras;
use crate::wire::{embedded, image, text};

pub fn listed(extras: Extras) -> Value {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    let mut prompts = vec![
        json!({"name": "test_simple_prompt", "description": "simple"}),
        json!({"name": "test_prompt_with_arguments", "description": "arguments",
            "arguments": [argument("arg1"), argument("arg2")]}),
        json!({"name": "test_prompt_with_embedded_resource", "description": "resource",
            "arguments": [argument("resourceUri")]}),
        json!({"name": "test_prompt_with_image", "description": "image"}),
        json!({"name": "test_input_required_result_prompt", "description": "asks before it answers"}),
    ];
    if extras.prompt {
        prompts.push(json!({"name": "test_extra_prompt", "description": "comes and goes"}));
    }
    json!({"prompts": prompts})
}

pub fn found(name: &str, arguments: &Value) -> Option<Value> {
    let said = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let contents = match name {
        "test_simple_prompt" | "test_extra_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            vec![text(format!("Prompt with arguments: arg1='{}', arg2='{}'", said("arg1"), said("arg2")))]
        }
        "test_prompt_with_embedded_resource" => {
            let resource = embedded(&said("resourceUri"), "text/plain", "Embedded resource content for testing.");
            vec![resource, text("Please process the embedded resource above.")]
        }
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        "test_input_required_result_prompt" => vec![text(format!("Use this context: {}", said("said")))],
        _ => return None,
    };
    let messages = contents.into_iter().map(|content| json!({"role": "user", "content": content}));
    Some(json!({"messages": messages.collect::<Vec<_>>()}))
}
